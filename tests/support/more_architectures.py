"""More small nets, of architectures that leave more to guess."""

from __future__ import annotations

import torch
from architectures import Attention, FeedForward, LeNet, Made, architecture
from torch import Tensor, nn
from torch.nn import functional as F


class PatchEmbed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, 16, 4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).flatten(2).transpose(1, 2)


class VitBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(16)
        self.attn = SelfAttention()
        self.norm2 = nn.LayerNorm(16)
        self.mlp = FeedForward(16, 32)
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.scale * self.mlp(self.norm2(x))


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.proj = nn.Linear(16, 16)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c)
        return self.drop(self.proj(y))


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = PatchEmbed()
        self.cls = nn.Parameter(torch.zeros(1, 1, 16))
        self.pos = nn.Parameter(torch.randn(1, 17, 16))
        self.blocks = nn.Sequential(*[VitBlock() for _ in range(3)])
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


@architecture
def vit() -> Made:
    return Vit(), (torch.randn(2, 3, 16, 16),)


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class SwiGLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(16, 32, bias=False),
            nn.Linear(32, 16, bias=False),
            nn.Linear(16, 32, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = (
            RMSNorm(),
            RMSNorm(),
            Attention(16, 4),
            SwiGLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attn(y, y)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.layers = nn.ModuleList(LlamaBlock() for _ in range(3))
        self.norm = RMSNorm()
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, t: Tensor) -> Tensor:
        x = self.embed(t)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@architecture
def llama() -> Made:
    return Llama(), (torch.randint(0, 11, (2, 6)),)


class Squeeze(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 2), nn.Linear(2, 8)

    def forward(self, x: Tensor) -> Tensor:
        s = torch.sigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3))))))
        return x * s[:, :, None, None]


class SEBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.se = (
            nn.Conv2d(8, 8, 3, 1, 1),
            nn.Conv2d(8, 8, 3, 1, 1),
            Squeeze(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.se(self.conv2(F.relu(self.conv1(x)))))


class SENet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.blocks = nn.ModuleList(SEBlock() for _ in range(3))
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean((2, 3)))


@architecture
def senet() -> Made:
    return SENet(), (torch.randn(2, 3, 8, 8),)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.mu, self.logvar = nn.Linear(128, 4), nn.Linear(128, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv2(F.relu(self.conv1(x)))).flatten(1)
        return self.mu(x), self.logvar(x)


class VaeDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 128)
        self.up1, self.up2 = nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.ConvTranspose2d(8, 1, 4, 2, 1)

    def forward(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.up2(F.relu(self.up1(F.relu(self.fc(z)).view(-1, 8, 4, 4)))))


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(), VaeDecoder()

    def forward(self, x: Tensor) -> Tensor:
        mu, logvar = self.encoder(x)
        return self.decoder(mu + torch.randn_like(mu) * (0.5 * logvar).exp())


@architecture
def vae() -> Made:
    return Vae(), (torch.randn(2, 1, 16, 16),)


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = LeNet()

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return (self.body(a) - self.body(b)).pow(2).sum(1)


@architecture
def siamese() -> Made:
    return Siamese(), (torch.randn(2, 1, 28, 28), torch.randn(2, 1, 28, 28))


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        self.rnn = nn.GRU(8, 8, 2, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(16, 3)

    def forward(self, t: Tensor) -> Tensor:
        y, _ = self.rnn(self.embed(t))
        return self.out(self.drop(y)).log_softmax(-1)


@architecture
def gru() -> Made:
    return Gru(), (torch.randint(0, 9, (5, 2)),)


class ConvNextBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dw = nn.Conv2d(8, 8, 7, 1, 3, groups=8)
        self.norm = nn.LayerNorm(8)
        self.pw1, self.act, self.pw2 = nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)
        self.gamma = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.dw(x).permute(0, 2, 3, 1)
        y = self.gamma * self.pw2(self.act(self.pw1(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(ConvNextBlock(), ConvNextBlock()) for _ in range(2)
        )
        self.downs = nn.ModuleList([nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 2, 2)])
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        for d, s in zip(self.downs, self.stages, strict=True):
            x = s(d(x))
        return self.head(self.norm(x.mean((-2, -1))))


@architecture
def convnext() -> Made:
    return ConvNext(), (torch.randn(2, 3, 16, 16),)


class ResMlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(8), FeedForward(8, 16)]) for _ in range(3)
        )
        self.out = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        for norm, ff in self.layers:
            x = x + ff(norm(x))
        return self.out(F.relu(x))


@architecture
def residual_mlp() -> Made:
    return ResMlp(), (torch.randn(4, 8),)


class GruCells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(8, 8), nn.GRUCell(8, 8)])
        self.head = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        h = [torch.zeros(x.shape[1], 8)] * 2
        out: list[Tensor] = []
        for t in x:
            y = t
            for i, c in enumerate(self.cells):
                h[i] = y = c(y, h[i])
            out.append(self.head(y))
        return torch.stack(out)


@architecture
def gru_cells() -> Made:
    return GruCells(), (torch.randn(5, 3, 8),)


@architecture
def weight_norm() -> Made:
    w = nn.utils.parametrizations.weight_norm
    return nn.Sequential(
        w(nn.Linear(8, 8)), nn.ReLU(), w(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 2)
    ), (torch.randn(3, 8),)


@architecture
def rnn_cell() -> Made:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.RNNCell(4, 8)
            self.out = nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = None
            o = []
            for t in x:
                h = self.cell(t, h)
                o.append(self.out(F.relu(h)))
            return torch.stack(o)

    return M(), (torch.randn(5, 3, 4),)
